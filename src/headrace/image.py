"""`tf.image`: images in files, their sizes, colours and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.ops.image.codecs import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
)

if TYPE_CHECKING:
    from headrace.library.image.colors import (
        adjust_brightness,
        adjust_contrast,
        adjust_gamma,
        adjust_hue,
        adjust_jpeg_quality,
        adjust_saturation,
        convert_image_dtype,
        grayscale_to_rgb,
        per_image_standardization,
        random_brightness,
        random_contrast,
        random_hue,
        random_jpeg_quality,
        random_saturation,
        rgb_to_grayscale,
        rgb_to_yiq,
        rgb_to_yuv,
        yiq_to_rgb,
        yuv_to_rgb,
    )
    from headrace.library.image.flips import (
        flip_left_right,
        flip_up_down,
        random_flip_left_right,
        random_flip_up_down,
        rot90,
        transpose_image,
    )
    from headrace.library.image.flips import transpose_image as transpose
    from headrace.library.image.framing import (
        central_crop,
        crop_to_bounding_box,
        pad_to_bounding_box,
        random_crop,
        resize_image_with_crop_or_pad,
        resize_with_crop_or_pad,
    )
    from headrace.library.image.measures import (
        image_gradients,
        psnr,
        sobel_edges,
        ssim,
        ssim_multiscale,
        total_variation,
    )
    from headrace.library.image.resizing import (
        ResizeMethod,
        resize,
        resize_area,
        resize_bicubic,
        resize_bilinear,
        resize_image_with_pad,
        resize_images,
        resize_nearest_neighbor,
    )
    from headrace.ops.image.boxes import (
        crop_and_resize,
        draw_bounding_boxes,
    )
    from headrace.ops.image.colors import (
        hsv_to_rgb,
        rgb_to_hsv,
    )
    from headrace.ops.image.patches import (
        extract_image_patches,
        extract_patches,
    )
    from headrace.ops.image.proposals import generate_bounding_box_proposals
    from headrace.ops.image.sampling import (
        extract_glimpse,
        sample_distorted_bounding_box,
    )
    from headrace.ops.image.suppression import (
        combined_non_max_suppression,
        non_max_suppression,
        non_max_suppression_overlaps,
        non_max_suppression_padded,
        non_max_suppression_with_scores,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.image.colors": (
                "adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_jpeg_quality "
                "adjust_saturation convert_image_dtype grayscale_to_rgb per_image_standardization "
                "random_brightness random_contrast random_hue random_jpeg_quality random_saturation "
                "rgb_to_grayscale rgb_to_yiq rgb_to_yuv yiq_to_rgb yuv_to_rgb"
            ),
            "headrace.library.image.flips": (
                "flip_left_right flip_up_down random_flip_left_right random_flip_up_down rot90 "
                "transpose_image transpose=transpose_image"
            ),
            "headrace.library.image.framing": (
                "central_crop crop_to_bounding_box pad_to_bounding_box random_crop "
                "resize_image_with_crop_or_pad resize_with_crop_or_pad"
            ),
            "headrace.library.image.measures": (
                "image_gradients psnr sobel_edges ssim ssim_multiscale total_variation"
            ),
            "headrace.library.image.resizing": (
                "ResizeMethod resize resize_area resize_bicubic resize_bilinear resize_image_with_pad "
                "resize_images resize_nearest_neighbor"
            ),
            "headrace.ops.image.boxes": "crop_and_resize draw_bounding_boxes",
            "headrace.ops.image.colors": "hsv_to_rgb rgb_to_hsv",
            "headrace.ops.image.patches": "extract_image_patches extract_patches",
            "headrace.ops.image.sampling": "extract_glimpse sample_distorted_bounding_box",
            "headrace.ops.image.proposals": "generate_bounding_box_proposals",
            "headrace.ops.image.suppression": (
                "combined_non_max_suppression non_max_suppression non_max_suppression_overlaps "
                "non_max_suppression_padded non_max_suppression_with_scores"
            ),
        },
    )

__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_jpeg_quality",
    "adjust_saturation",
    "central_crop",
    "combined_non_max_suppression",
    "convert_image_dtype",
    "crop_and_resize",
    "crop_to_bounding_box",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "draw_bounding_boxes",
    "encode_jpeg",
    "encode_png",
    "extract_glimpse",
    "extract_image_patches",
    "extract_jpeg_shape",
    "extract_patches",
    "flip_left_right",
    "flip_up_down",
    "generate_bounding_box_proposals",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "image_gradients",
    "is_jpeg",
    "non_max_suppression",
    "non_max_suppression_overlaps",
    "non_max_suppression_padded",
    "non_max_suppression_with_scores",
    "pad_to_bounding_box",
    "per_image_standardization",
    "psnr",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_hue",
    "random_jpeg_quality",
    "random_saturation",
    "resize",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_image_with_crop_or_pad",
    "resize_image_with_pad",
    "resize_images",
    "resize_nearest_neighbor",
    "resize_with_crop_or_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "rot90",
    "sample_distorted_bounding_box",
    "sobel_edges",
    "ssim",
    "ssim_multiscale",
    "total_variation",
    "transpose",
    "transpose_image",
    "yiq_to_rgb",
    "yuv_to_rgb",
]

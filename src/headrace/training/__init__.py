"""Around many steps: coordinator, queue runners, optimizers, the timeline of a step."""

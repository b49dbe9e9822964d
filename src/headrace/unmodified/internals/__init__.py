"""What programs import from tensorflow.python that has no public name: small functions, by what they are about."""

from __future__ import annotations

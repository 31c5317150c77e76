"""What the data pipeline raises."""

from __future__ import annotations

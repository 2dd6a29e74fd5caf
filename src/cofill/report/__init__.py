"""Pictures and pages made from result records, never from a person's row."""

from cofill.report._picture import completion_picture

__all__ = ["completion_picture"]

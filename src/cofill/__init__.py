"""Complete the records that organisations may not show each other, and measure what leaks."""

__version__ = "0.1.0"

"""The demo: what cofill does, as one story on embedded data."""

from cofill.demo._clinics import Clinics
from cofill.demo._story import CHAPTERS, Chapter, Demo, run_demo

__all__ = ["CHAPTERS", "Chapter", "Clinics", "Demo", "run_demo"]

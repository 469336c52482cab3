"""`trainer report`: one page on a run, or on several side by side, that needs no network and opens from a file."""

from trainer.report.contents import Report, write_page

__all__ = ["Report", "write_page"]

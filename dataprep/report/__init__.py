"""`dataprep report`: one page that shows what a sealed set holds, needs no network and opens from a file."""

from dataprep.report.contents import Reported, report

__all__ = ["Reported", "report"]

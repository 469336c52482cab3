"""The dataset page of `dataprep report`."""

"""The run page of `trainer report`."""

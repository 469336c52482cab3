"""The only place that knows devices: context, precision, data sinking, ranks, CPU kernels."""

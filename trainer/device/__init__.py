"""All device-specific code: context, precision, data sinking, ranks and CPU kernels."""

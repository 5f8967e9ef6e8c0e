"""One file a provider, one protocol: what every channel promises stands in `contract`."""

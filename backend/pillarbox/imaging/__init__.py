"""Pictures: the palette core and its twin."""

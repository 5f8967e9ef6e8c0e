"""What the showcase pages do beyond the product itself: incidents, played with real processes."""

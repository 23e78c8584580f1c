"""Every hider against every seeker."""

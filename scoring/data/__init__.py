"""Data sets: PhysioNet 2012, simulated stays, and the longitudinal CSV that all of them become."""

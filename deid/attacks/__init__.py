"""Attacks on what a hospital sends, one file an attack. `deid.audit` runs them all."""

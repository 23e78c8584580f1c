"""The text track: private representations of medical notes that still train a de-identifier.

After Friedrich, Koehn, Wiedemann and Biemann, "Adversarial Learning of Privacy-Preserving Text Representations for
De-Identification of Medical Records", ACL 2019. `python -m deid --help` lists the commands, docs/deid.md says what is
sent, what it hides and what it does not, with measured figures.
"""

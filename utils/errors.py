"""The one error that is the user's to mend."""


class UserError(ValueError):
    """Something the user can put right: one line saying what was wrong and what to do.

    The command-line tools print it without a traceback and exit with code 2.
    """

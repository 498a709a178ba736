"""DISPATCH: from a call of an operator to a kernel that ran, or was pushed. The bound Runtime lives here."""

"""Privacy budget: exact amounts and the durable ledger of what was spent."""

from sherd.budget.amount import Amount
from sherd.budget.entries import Account, Entry, Pending, Reservation
from sherd.budget.ledger import Ledger
from sherd.budget.storage import default_path

__all__ = ["Account", "Amount", "Entry", "Ledger", "Pending", "Reservation", "default_path"]

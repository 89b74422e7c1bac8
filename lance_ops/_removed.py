"""Messages that name the replacement of removed features."""

CALIBRATION_REMOVED = (
    "estimates of a compaction are computed from the manifest, and a fleet corrects them by the operations "
    "in its ledger (lance-ops fleet forecast shows their errors)"
)

MONEY_REMOVED = (
    "budget_money was removed: there are no prices any more; limit the requests with budget_requests"
)

REMOVED_NAMES = dict.fromkeys(("calibrate", "Calibration", "CostModel"), CALIBRATION_REMOVED)
"""Names that `lance_ops` had in earlier releases."""

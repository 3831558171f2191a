"""Users' habits: the command line, pictures, data sets, many machines. Optional packages are imported here."""

from symdebias import _optional

__getattr__ = _optional.on_demand(__name__, {}, rooms=("distributed",))

"""Everything that a method imports, in one file a concept:

composition         methods joined with `+`
contrastive         the formula, whose slots most methods fill
transform           maps of finished vectors
tools               what several methods share
contract            what the training loop calls, and what a method may use
hyper_parameters    their types, their marks, and their values by backbone
streams             random draws

A file imports those below it.
"""

from methods.base.composition import *
from methods.base.contract import *
from methods.base.contrastive import *
from methods.base.hyper_parameters import *
from methods.base.streams import *
from methods.base.tools import *
from methods.base.transform import *

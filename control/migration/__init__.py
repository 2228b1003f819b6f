"""Which join order, and at what cost to get there. Pure: figures in, trees and prices out.

trees.py join trees and which state two of them share; volumes.py windows as volumes; model.py rows and state of a
tree; optimise.py the best tree; statistics.py (with fit.py, prices.py) the model from what ticks tell; lengths.py how
long each strategy takes by the paper, strategies.py how long here; terms.py its price in row·s, gain.py which to take,
curve.py what either would cost at other windows; propose.py all of it together, pictured.py its trees; calibrate.py
what migrations really took.
"""

"""The cost model: spill, clean up, move and nothing in one unit, row·s — one result row, one second later.

coefficients.py the numbers; owed.py results put off; price.py CPU and load; roll.py what happens when
nothing is done; options.py what each option costs and gains; search.py amounts searched, options ranked;
draws.py confidence; recalibrate.py learning from what was measured.
"""

"""Every metric that the console shows: what it is, how it is computed, what to do about it. One table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Help:
    """Short sentences, in the papers' words."""

    name: str
    what: str
    how: str
    do: str


HELP: Mapping[str, Help] = {
    "memory": Help(
        "In memory",
        "State that a node keeps in memory and joins new rows with.",
        "Bytes of its runs' memory segments after the last tick, without copies in flight.",
        "Near the budget: move groups to a node with room, or spill what is least productive.",
    ),
    "held": Help(
        "Held in flight",
        "Copies of groups that are on their way to a node, and rows that wait for them.",
        "Counted at the receiver until the switch is committed; it counts against its budget.",
        "Nothing: it ends with the move. If it stays, look at the action's steps.",
    ),
    "disk": Help(
        "On disk",
        "State that was spilled. It takes no budget, but its results are put off until a clean-up.",
        "Bytes of spilled runs that the manifest names. The bar has the scale of memory's.",
        "Clean up when the node is idle and has room, or see Spill debt for what it owes.",
    ),
    "budget": Help(
        "Budget",
        "How much memory a node may fill with state.",
        "From the query file, or set per node. At 90 % of it the node spills by itself.",
        "Raise it where there is memory, lower it to make room for others.",
    ),
    "busy": Help(
        "Busy",
        "How much of the last round a node was working.",
        "Seconds that its steps took in the last round (10 s, where no rule says otherwise), by the round's seconds.",
        "One node far above the others holds up every tick: move productive groups off it.",
    ),
    "rows_out": Help(
        "Results",
        "Results that are joined and handed on, per second.",
        "Rows out of the last ticks; per node a decayed mean with a half-life of 60 s.",
        "A dip during an action is its cost; a dip without one is worth a look at source lag.",
    ),
    "rows_in": Help(
        "Rows in",
        "Rows of all streams that arrive, per second.",
        "Rows that were read in the last ticks, before the join.",
        "If it falls while lag grows, the query does not keep up.",
    ),
    "full_in": Help(
        "Full in",
        "When a node reaches 90 % of its budget and spills by its own rule.",
        "Memory now plus today's growth of its groups; with a window it levels off at rate × window.",
        "Below ten minutes it is an alert. Act before, and you choose what is spilled.",
    ),
    "lag": Help(
        "Source lag",
        "How far the query is behind its sources.",
        "Age of the oldest row that is not read yet, as far as the source says.",
        "Growing: less skew, more nodes, or a lower rate at the source.",
    ),
    "owed": Help(
        "Owed",
        "Results that are put off because part of their state is on disk.",
        "An estimate from the rates of spilled groups; a clean-up emits them, none is lost.",
        "Clean up while nodes are idle. The Spill debt page says what each node owes.",
    ),
    "output": Help(
        "Output rate",
        "Results and rows in over the chosen range, and every action as a range.",
        "One point for each tick, or means of several where there are many.",
        "Compare the line inside a range with the line before it: that is what the action cost.",
    ),
    "menu": Help(
        "What would help now",
        "Every kind of action at its best amount, ranked by what it gains against doing nothing.",
        "Result·seconds gained over the next 300 s minus its cost, by the model that past actions corrected.",
        "Preview the first. A small gain or a low confidence is a reason to wait.",
    ),
    "frees": Help(
        "Frees",
        "How much memory the node at risk gets back.",
        "Bytes of the groups that leave its memory; + means that it fills.",
        "Compare with how fast it grows.",
    ),
    "puts_off": Help(
        "Puts off",
        "Results that come later because of it.",
        "Estimated from the groups' rates until the horizon; a clean-up gives results back (−).",
        "None is lost. If results must be fresh, prefer a move.",
    ),
    "pause": Help(
        "Pause",
        "How long the touched groups' input is held.",
        "Learned from past actions of this kind; shown as measured afterwards.",
        "Less than a tick is not seen outside.",
    ),
    "cost": Help(
        "Cost",
        "Bytes that are sent, written or read, and for how long.",
        "Bytes of the named groups, over the speed that was learned.",
        "It uses the day's budget of bytes, half of which is kept for people.",
    ),
    "confidence": Help(
        "Confidence",
        "How often the option gains when the model's numbers are drawn again within their errors.",
        "Share of at least 40 draws in which the gain is above zero.",
        "Below 80 % a rule does not act by itself. It grows with every action that is measured.",
    ),
    "interlock": Help(
        "Interlocks",
        "What keeps each rule from acting now, and when it may next.",
        "All blockers at once: mode, hold, schedule, quiet hours, cool-down, running actions, budgets.",
        "A rule that should act and does not: read its line, then its page.",
    ),
    "fingerprint": Help(
        "Fingerprint",
        "What a proposal was made on: plan, nodes, budgets, and owner, tier and generation of each group.",
        "A hash of these. Bytes may drift by a quarter or 16 MB.",
        "If it no longer holds, applying is refused and the drift shown; propose again.",
    ),
    "tick": Help(
        "Tick",
        "One micro-batch: rows read, joined, committed.",
        "Counted since the query began; nothing has happened before its commit.",
        "If it stands still while the query runs, look at the engine's log.",
    ),
    "selectivity": Help(
        "Selectivity (σ)",
        "How many results an operator makes for each row that comes in.",
        "Results per second over rows in per second, both decayed with a half-life of 60 s.",
        "Far above one: this operator multiplies rows; a plan that joins it later has less to carry.",
    ),
    "orders": Help(
        "Join order",
        "Orders in which the same streams can be joined, with the same results.",
        "The best trees by rows in between and by state, from measured rates and selectivities; priced like every action.",
        "Preview one. A small gain or a low confidence is a reason to leave the order as it is.",
    ),
    "between": Help(
        "Rows in between",
        "Rows that one join hands to the next; most are thrown away later.",
        "Rates times selectivities of the streams below each join but the last. CPU: of what the running joins take.",
        "Far fewer: less work in every tick and less state. The results do not change.",
    ),
    "strategy": Help(
        "Strategies",
        "Moving state computes what is missing, then switches; the parallel track runs both plans for a window; the delta plan joins without states meanwhile.",
        "Length, pause and memory from what joining and keeping a row takes, and from earlier migrations.",
        "Take the advised one, unless results must not stand still, or memory is short.",
    ),
    "crossover": Help(
        "Cost over windows",
        "What moving state and the parallel track cost were windows shorter or longer, everything else as it is.",
        "Direct cost, and what is lost until the new order stands, in row·s; both axes are logarithmic.",
        "Near the diamond both cost the same: choose by the pause or by the memory.",
    ),
    "tiles": Help(
        "Groups by node",
        "One tile for each group of the operator, on the node that owns it; or each as wide as its memory.",
        "Productivity is results per second, decayed with a half-life of 60 s, per MB in memory.",
        "Bright tiles are worth their memory: move these. Dark ones: spill these first.",
    ),
    "even": Help(
        "Least / most memory",
        "How evenly memory is spread over the nodes: 1.00 when all hold the same.",
        "The least memory of a node over the most, of the nodes that are alive.",
        "Rules for moving usually act below 0.80.",
    ),
    "day": Help(
        "Left today",
        "How many bytes and seconds of pause actions may still take.",
        "The budget of a rolling 24 h minus what actions took; half of it is kept for people.",
        "When it is used up an admin can raise it, or override it once.",
    ),
    "steps": Help(
        "Steps",
        "What an action does, in the papers' order: a move has eight, a spill four, a clean-up five.",
        "Times are the engine's, by its own clock. Where one part is much longer, the axis is broken at the switch.",
        "A step that stays open: see what the engine says of it, and cancel the action before its commit.",
    ),
    "predicted": Help(
        "Predicted and actual",
        "What the cost model foretold of this action, and what the engine measured.",
        "The mark is on a scale from a quarter to four times what was predicted; grey is within 25 %.",
        "Nothing: the model learns from each action. If it stays far off, look at the coefficients in Settings.",
    ),
    "receipt": Help(
        "Correctness receipt",
        "Proof that no row was lost and none came twice.",
        "For each stream: rows before, what came in, less what expired, must be the rows after; checksums compared.",
        "If it differs, stop automation and report it with `run.py diagnose`.",
    ),
    "backtest": Help(
        "Backtest",
        "What a rule would have done on what was recorded, as if it had been on auto.",
        "Recorded snapshots go through the same policy, interlock and arbiter; memory and rates are simulated.",
        "Compare it with the grey lines, which are nodes' own spills alone, before switching a rule to auto.",
    ),
    "evicted": Help(
        "Evicted and kept",
        "How many results each MB brings in memory, and how many each MB on disk is kept from bringing.",
        "Results a second over bytes, by node; what is owed is an estimate from the groups' rates.",
        "Where the hatched bar is longer, the wrong groups were spilled: clean them up first.",
    ),
}

"""Where groups live at the start: evenly, or by given shares (paper row L2).

Both are pure and deterministic. Groups are interleaved over the nodes, so that a run of busy
groups does not land on one node. Moving groups later is the control plane's business.
"""

from __future__ import annotations

from collections.abc import Mapping


def even(groups: int, nodes: int) -> tuple[int, ...]:
    """Group g on node g mod nodes."""
    return tuple(group % nodes for group in range(groups))


def weighted(groups: int, shares: Mapping[int, float]) -> tuple[int, ...]:
    """Groups by shares (which sum to 1): each node's count is within one of its share."""
    counts = _counts(groups, shares)
    placed = dict.fromkeys(counts, 0)
    found = []
    for _ in range(groups):
        node = min(
            (n for n in counts if placed[n] < counts[n]),
            key=lambda n: ((placed[n] + 0.5) / counts[n], n),
        )
        placed[node] += 1
        found.append(node)
    return tuple(found)


def _counts(groups: int, shares: Mapping[int, float]) -> dict[int, int]:
    """Whole numbers of groups: largest remainders get what rounding down leaves over."""
    total = sum(shares.values())
    exact = {node: groups * share / total for node, share in sorted(shares.items())}
    counts = {node: int(share) for node, share in exact.items()}
    left = groups - sum(counts.values())
    by_remainder = sorted(exact, key=lambda node: (counts[node] - exact[node], node))
    for node in by_remainder[:left]:
        counts[node] += 1
    return counts

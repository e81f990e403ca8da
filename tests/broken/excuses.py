"""Places in which no verdict can move although the data do, and why: there the self-check is all that notices."""

EXCUSED: dict[tuple[str, str], str] = {
    (
        "single-cluster",
        "equation",
    ): "its runs are made by engines; the equation only tells slow tokens from stopped ones",
}

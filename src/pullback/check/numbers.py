"""Every number that a check decides by, with its reason.

ε is the rounding unit of the values at hand, so that one set of numbers holds for float64, float32 and shorter
formats. Powers of ε are lengths of steps relative to the direction, whose entries have the size of the inputs'.
"""

# How sure a mismatch must be: error bars are those of an extrapolation, and are too small by a few now and then.
BARS = 30.0
# Where an error is that of noise as it was measured, not extrapolated, so many do.
PLAIN_BARS = 5.0
# A measurement that may be off by more than this share decides nothing.
COARSE = 0.1
# Claims that move an output by less than a few units of its rounding cannot be told from none.
UNITS = 8.0
# The error that many roundings in a row may add up to: 2¹⁴ units, far below any mistake.
ROUNDINGS = 2.0**14
# A line of a program that runs at least so often may be an iteration.
ITERATIONS = 10

# The ladder of central steps: first step, ratio, least and most levels, the relative error that suffices.
FIRST_STEP, FIRST_STEP_BRIEF = 2 / 13, 3 / 13  # powers of ε: 2⁻⁸ and 2⁻¹² in float64
LEVELS, LEVELS_BRIEF = (3, 7), (2, 5)
ENOUGH, ENOUGH_BRIEF = 0.62, 0.32  # powers of ε: 3e-10 and 1e-5 in float64
# Formats with fewer digits than this power of two have no room for a ratio of 4.
LONG_FORMAT = 2.0**-40
# Share of entries, such as those next to a kink, that may stay unsettled without more steps.
FEW_UNSETTLED = 0.005
# Columns of Neville's table: beyond, rounding is all that is extrapolated.
COLUMNS = 3
# Vectors up to this length are their own sample; of longer ones so many entries are looked at for what is typical.
SHORT_VECTOR, SAMPLE = 16_384, 4_096

# Radii for one-sided quotients: where rounding still leaves a digit, up to where curvature takes over.
LEAST_RADIUS, MOST_RADIUS = 3 / 4, 1 / 8  # powers of ε
RADII = 11
# The window in which nearly every kink is confirmed, tried before the others.
FIRST_WINDOW = 3
# A bar decides if it is below this power of ε relative to the derivative, and below a third of the gap to explain.
FINE = 1 / 4
RESOLVED = 1 / 3
# A value that moves from one radius to the next by more than so many times its rounding, and by more than this share of
# its distance from the claim, has not settled: slow powers creep.
UNSETTLED, STILL = 3.0, 0.01

# Noise: equally spaced values to one side, differences of these orders, and what few of them may be off by.
NOISE_POINTS = 17
NOISE_ORDERS = (4, 5, 6)
NOISE_SPACINGS, ENOUGH_SPACING = (
    (1 / 2, 1 / 3, 1 / 6),
    1 / 3,
)  # powers of ε; the last for staircases only
NOISE_FACTOR = 3.0
# Values that jump by this share of their size within a spacing say nothing of a derivative.
CHAOS = 0.05

# Moves of a point by units of rounding, to see how much of a claim is rounding.
CLAIM_MOVES = (2.0, -4.0, 8.0)

# Neighbours of a point, for hulls of derivatives: how many, in balls of these radii, with steps this much shorter.
NEIGHBOURS, FEW_NEIGHBOURS = 64, 6
BALLS = (1 / 2, 3 / 8)  # powers of ε
STEP_IN_BALL = 1 / 8  # power of ε
# What keeps this share of its size at a smaller distance does not go away: a step is a jump; and a hull that of a kink,
# where curvature would leave a hundredth.
LASTING, LASTING_HULL = 0.5, 0.2
# Few places miss the very edge of a hull by this share of its width.
EDGE = 0.05

# Upstreams of other sizes, which a rule that clips or has a dead zone answers differently (bits).
UPSTREAM_BITS, UPSTREAM_BITS_SHORT = 20, 6
# Modes run the same program in another order of operations: so many units of rounding apart at most.
MODE_UNITS = 1_000.0

# A made-up point outside the domain is tried again this part of the way from the given one.
PART_OF_THE_WAY = 0.3
# A value that is not the one in question: beside it by this factor.
ASIDE = 1.0625
# In formats as short as this, large values tell nothing.
COARSEST = 1e-4

# Entries that are looked at one by one at most, when very many are suspect.
MOST_SUSPECTS = 20_000

# What given arguments suggest: a property must hold in rows of at least so many entries, or in so many pairs; sums and
# lengths of one are those of float32.
ROW = 3
UNIT_SUM = 1e-5

# With so few entries chance alone does not bring every value to every place; with so many, calls are expensive.
SMALL_INPUT, LARGE_INPUT = 64, 200_000
# Shares of zeros among other values: several, then one in each leaf only.
ZEROS = (0.2, 0.0)
# So many inputs are put between thresholds one by one.
MOST_LEAVES = 3

# An explanation must predict each entry to AGREE, and leave no more than EXPLAINED of the gap: a small error is not
# explained by being small.
AGREE, EXPLAINED = 1e-6, 2e-3
# Entries at which differences are taken where the program gives no derivative; fresh points and how near they are;
# points of the pool.
GRID, FRESH, NEAR, POOL = 64, 3, 0.1, 12
# So many wrong elements are named one by one; so many rows are tried one by one.
FEW_ELEMENTS, MOST_ROWS = 4, 32
# A condition needs so many wrong and right values; its ends are halved so often, and taken for a constant this near,
# as a share of the way that was halved.
LEAST_VALUES, HALVINGS, SNAP = 3, 14, 1e-3
# An error within this many times what can be told, just inside the end of an interval, fades out: there is no such end.
FADED = 100.0
# Rounding errors change with moves of so many units of rounding, all other errors do not.
ERRATIC = 64.0
# A slip in the program is tested by products with so many directions, to this share; so many tensors are tried in the
# place of each input; a slip in every run of a loop costs a sweep, so many calls are spent on those.
EQUATIONS, SLIP_FIT, MOST_SWAPS, MOST_SWEEPS = 4, 1e-6, 10, 400

# The smallest failing input: steps towards it, digits tried for its numbers; and the seconds that it may take, and a
# picture again.
SHRINKS, DIGITS, SECONDS = 60, (1, 2, 3, 5), 3.0
# It must be wrong by at least this share of what it was.
AS_FAR_OFF = 0.2
# So few numbers are shown one by one, and arguments so short stay as they were given; so many fit into a script.
FEW_NUMBERS, MOST_NUMBERS = 12, 64
# Digits of a number that is shown: at least, beyond where two begin to differ, and at most.
LEAST_DIGITS, MORE_DIGITS, MOST_DIGITS = 6, 2, 17
# Pictures: points on a line, and cells of a table in each direction.
PICTURE_POINTS, PICTURE_CELLS = 41, 16
# Seconds until what a check is doing is shown, and between changes.
PATIENCE, REFRESH = 1.0, 0.1

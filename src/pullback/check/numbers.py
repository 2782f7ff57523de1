"""Every number that a check decides by, with its reason.

ε is the rounding unit of the values at hand, so that one set of numbers holds for float64, float32 and shorter
formats. Powers of ε are lengths of steps relative to the direction, whose entries have the size of the inputs'.
"""

# How sure a mismatch must be: error bars are those of an extrapolation, and are too small by a few now and then.
BARS = 30.0
# A measurement that may be off by more than this share decides nothing: of a derivative, of values that jump within a
# spacing, of the width of a hull whose very edge few places meet. Its square is a share that does not matter: by more
# than that of its distance from the claim, a value that has settled does not move from one radius to the next.
COARSE = 0.1
# A few times an error as it was measured, or a unit of rounding, cannot be told from none.
UNITS = 8.0
# The error that many roundings in a row may add up to, or the same ones in another order: 2¹⁴ units, far below any
# mistake.
ROUNDINGS = 2.0**14
# A line of a program that runs at least so often may be an iteration.
ITERATIONS = 10

# The ladder of central steps: first step, least and most levels (of which the former are all that is extrapolated
# from: beyond, it is rounding), the relative error that suffices, with half of its digits where a brief one does.
FIRST_STEP, FIRST_STEP_BRIEF = 2 / 13, 3 / 13  # powers of ε: 2⁻⁸ and 2⁻¹² in float64
LEVELS, LEVELS_BRIEF = (3, 7), (2, 5)
ENOUGH = 0.62  # a power of ε: 3e-10 in float64
# Formats with fewer digits than this power of two have no room for a ratio of 4.
LONG_FORMAT = 2.0**-40
# Share of entries, such as those next to a kink, that may stay unsettled without more steps.
FEW_UNSETTLED = 0.005
# Vectors up to this length are gone through entry by entry; of longer ones so many entries tell what is typical.
SHORT_VECTOR, SAMPLE = 16_384, 4_096

# Radii for one-sided quotients: where rounding still leaves a digit, up to where curvature takes over; the latter is
# the length of steps inside a ball as well, relative to its radius. The window a third of the way up, in which nearly
# every kink is confirmed, is tried before the others.
LEAST_RADIUS, USUAL_RADIUS, MOST_RADIUS = 3 / 4, 1 / 3, 1 / 8  # powers of ε
RADII = 11
# A bar decides if it is below this power of ε relative to the derivative, and below a third of the gap to explain.
FINE = 1 / 4
RESOLVED = 1 / 3

# Noise: equally spaced values to one side, differences of these orders, and what few of them may be off by.
NOISE_POINTS = 17
NOISE_ORDERS = (4, 5, 6)
NOISE_SPACINGS = (1 / 2, 1 / 3, 1 / 6)  # powers of ε; the last for staircases only
NOISE_FACTOR = 3.0

# Moves of a point by units of rounding, to see how much of a claim is rounding.
CLAIM_MOVES = (2.0, -4.0, 8.0)

# An input beside which others have far more effect is moved by ever wider steps, so often; what the rule says and the
# first three steps to either side take so many calls.
WIDENINGS, WINDOW_CALLS = 5, 7

# Neighbours of a point, for hulls of derivatives, are looked for in balls of these radii.
BALLS = (1 / 2, 3 / 8)  # powers of ε
# So many neighbours are all that a quick check has calls for, and so many the least that tell; where there is a
# kink, few of them agree by chance.
BRIEF_PLACES, LEAST_PLACES = 4, 2
# What keeps this share of its size at a smaller distance does not go away: a step is a jump.
LASTING = 0.5
# What keeps this share is still the same: the hull of a kink in a smaller ball (curvature would leave a hundredth), and
# the error of a smaller failing input.
KEPT = 0.2

# Upstreams of other sizes, which a rule that clips or has a dead zone answers differently (bits).
UPSTREAM_BITS, UPSTREAM_BITS_SHORT = 20, 6

# A made-up point outside the domain is tried again this part of the way from the given one.
PART_OF_THE_WAY = 0.3
# An input whose size is that far from the others', or from one, has a scale of its own: points keep to it.
IN_SCALE = 2.0**14
# Values this many times as large as the given ones are not far from them.
SHORT_WAY = 1e3
# A value near another, but not the same: it differs by this share.
NEAR = 0.1

# What holds in fewer places than these may be chance: entries of a row, values under a condition, fresh points,
# neighbours to either side. So many inputs are put between thresholds one by one.
SEVERAL = 3
# Bounds of effort. A few: numbers shown one by one, points of a pool, tensors tried in the place of another. Many:
# neighbours of a point, entries and rows that are tried one by one, steps towards a smaller input, numbers in a script;
# in inputs of fewer entries chance alone does not bring every value to every place.
FEW, MANY = 12, 64
# With so many entries calls are expensive.
LARGE_INPUT = 200_000

# Sums and lengths of one are those of float32.
UNIT_SUM = 1e-5
# Shares of zeros among other values: several, then one in each leaf only.
ZEROS = (0.2, 0.0)

# An explanation must predict each entry to AGREE, and leave no more than EXPLAINED of the gap: a small error is not
# explained by being small. The end of a condition is the constant that lies as near, as a share of the way halved.
AGREE, EXPLAINED = 1e-6, 2e-3
# So many wrong elements are named one by one, and so many directions test a slip.
FEW_ELEMENTS = 4
# The ends of a condition are halved so often.
HALVINGS = 14
# A slip in every run of a loop costs a sweep through the program: so many are tried.
MOST_SWEEPS = 100

# What may be spent: calls of a quick check, of its own or where the command line looks into a suspicion; calls and
# seconds of CPU time of a diagnosis, beyond those of the verdict: for an explanation, and then for the smallest failing
# input and pictures.
QUICK_CALLS, LOOK_CALLS = 30, 3_000
EXPLAINING_CALLS, EXPLAINING_SECONDS = 6_000, 3.5
SHOWING_CALLS, SHOWING_SECONDS = 3_000, 1.5
# A function that waits for something else than this process may take so many times the seconds.
WAITING = 10.0

# The smallest failing input: digits tried for its numbers; and the seconds that it may take, and a picture again.
DIGITS, SECONDS = (1, 2, 3, 5), 3.0
# Digits of a number that is shown: at least, and beyond where two begin to differ.
LEAST_DIGITS, MORE_DIGITS = 6, 2
# Pictures: points on a line, and cells of a table in each direction.
PICTURE_POINTS, PICTURE_CELLS = 41, 16
# Seconds until what a check is doing is shown, and between changes.
PATIENCE, REFRESH = 1.0, 0.1

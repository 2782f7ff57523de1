"""Stories: questions about gradients, answered by stock TensorFlow, pullback and mathematics."""

from pullback.tour._story import Answer as Answer
from pullback.tour._story import Line as Line
from pullback.tour._story import Outcome as Outcome
from pullback.tour._story import Story as Story
from pullback.tour._story import Told as Told
from pullback.tour._story import find_stories as find_stories
from pullback.tour._story import load_story as load_story
from pullback.tour._story import run_file as run_file

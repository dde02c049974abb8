"""The app's own instructions, as its files have them: a fork changes them."""

from shared.rag.prompt import read_prompts
from shared.settings import SHARED_FOLDER

APP_PROMPTS = read_prompts(SHARED_FOLDER / "rag" / "prompts")

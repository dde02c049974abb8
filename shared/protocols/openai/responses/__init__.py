"""OpenAI's Responses API: answers with annotations, streams of typed events, stored responses."""

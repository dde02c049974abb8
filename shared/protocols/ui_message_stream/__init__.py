"""The UI message stream of Vercel's AI SDK, which `useChat` reads in its versions 5, 6 and 7."""

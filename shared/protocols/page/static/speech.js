// Reads an answer aloud, by a voice of the device: no text leaves it.

let speaking = null; // the button of the answer that is read

/** Returns whether the device has a voice of its own. */
export const canSpeak = () => localVoices().length > 0;

function localVoices() {
  return (globalThis.speechSynthesis?.getVoices() ?? []).filter(({ localService }) => localService);
}

/** Reads the text of an element; if `button` is pressed already, stops. */
export function speak(button, element) {
  const wasSpeaking = speaking === button;
  stopSpeaking();
  if (wasSpeaking) return;
  const spoken = element.cloneNode(true);
  for (const citation of spoken.querySelectorAll("sup")) citation.remove();
  const utterance = new SpeechSynthesisUtterance(spoken.textContent);
  const language = document.documentElement.lang;
  const voices = localVoices();
  utterance.voice = voices.find(({ lang }) => lang.startsWith(language)) ?? voices[0];
  utterance.onend = utterance.onerror = () => speaking === button && stopSpeaking();
  speaking = button;
  button.setAttribute("aria-pressed", "true");
  speechSynthesis.speak(utterance);
}

/** Stops reading. */
export function stopSpeaking() {
  speaking?.setAttribute("aria-pressed", "false");
  speaking = null;
  globalThis.speechSynthesis?.cancel();
}

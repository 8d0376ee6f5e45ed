// Browsers start no Worker from a file that is opened from disk: one in a hidden frame takes its place, whose scripts are loaded by
// elements, so that the search works there. It is a Worker as far as the search needs one: it sends and gets messages.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = this.inside = frame.contentWindow, script = inside.document.createElement("script");
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      // one after the other, and what waits for them goes on when all are there
      inside.importScripts = (...addresses) => addresses.reduce((before, one) => before.then(() => new Promise((done, failed) => {
        const element = inside.document.createElement("script");
        Object.assign(element, { src: new URL(one, address).href, onload: done, onerror: failed });
        inside.document.head.append(element);
      })), Promise.resolve());
      this.loaded = new Promise((done, failed) => Object.assign(script, { src: address, onload: done, onerror: failed }));
      inside.document.head.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() { this.inside.frameElement.remove(); }
  };

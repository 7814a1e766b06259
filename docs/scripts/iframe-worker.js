// Search on pages opened from the disk, where browsers start no workers: a hidden frame does the work of one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("load", () => {
        const inside = frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inside.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = () => {
          this.deliver = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
          this.waiting.forEach(this.deliver);
        };
        inside.document.body.append(script);
      }, { once: true });
      document.body.append(frame);
    }

    postMessage(data) {
      if (this.deliver) this.deliver(data);
      else this.waiting.push(data);
    }
  };
}

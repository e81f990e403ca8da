// The play-head: a share of the film from 0 to 1, and the time and saved states it stands for.

export class Clock {
  constructor(times) {
    this.times = times;
    this.start = times[0];
    this.length = times[times.length - 1] - times[0];
    this.log = false;
    this.share = 0;
    // resolves the first saved step; smooth at 0, where a geometric clock would jump
    this.rate = times.length > 1 && this.length > 0 ? Math.log1p(this.length / (times[1] - times[0])) : 1;
  }

  /** The time at a share of the film. */
  time(share = this.share) {
    const part = this.log ? Math.expm1(this.rate * share) / Math.expm1(this.rate) : share;
    return this.start + this.length * part;
  }

  /** The share of the film at a time. */
  shareOf(time) {
    if (!(this.length > 0)) return 0;
    const part = Math.min(1, Math.max(0, (time - this.start) / this.length));
    return this.log ? Math.log1p(part * Math.expm1(this.rate)) / this.rate : part;
  }

  /** The saved state before the play-head, and how far it is on the way to the next. */
  place() {
    const time = this.time(), last = this.times.length - 1;
    if (last < 1) return { k: 0, u: 0, time };
    let low = 0, high = last - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times[middle] <= time) low = middle;
      else high = middle - 1;
    }
    const step = this.times[low + 1] - this.times[low];
    return { k: low, u: Math.min(1, Math.max(0, (time - this.times[low]) / step)), time };
  }

  /** Step by saved states. */
  step(count) {
    const { k, u } = this.place();
    const here = u > 0.999 ? k + 1 : k + u;
    const next = count > 0 ? Math.floor(here + 1e-6) + count : Math.ceil(here - 1e-6) + count;
    this.share = this.shareOf(this.times[Math.min(this.times.length - 1, Math.max(0, next))]);
  }

  setLog(on) {
    const time = this.time();
    this.log = on;
    this.share = this.shareOf(time);
  }
}

// Starts Debian's Chromium, or the program that CHROMIUM names.

/** How long tests wait for anything, in milliseconds: other tests may take all CPU time for minutes. */
export const PATIENCE = 300_000;

export const launch = (chromium) =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

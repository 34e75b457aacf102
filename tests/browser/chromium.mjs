// Starts Debian's Chromium, or the program that CHROMIUM names.

export const launch = (chromium) =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

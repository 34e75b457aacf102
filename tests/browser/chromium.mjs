// Debian's Chromium; CHROMIUM names another one.

export const launch = (chromium) =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

import { Console } from "node:console";

/** Receives the log lines of a worker; `console`, pino and winston fit. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Writes to standard error. */
export const standardError: Logger = new Console({ stdout: process.stderr, stderr: process.stderr });

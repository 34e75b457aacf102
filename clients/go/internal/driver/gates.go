package main

import (
	"context"
	"time"
)

// gate returns the channel that is closed when the gate is opened.
func (d *driver) gate(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates[name] == nil {
		d.gates[name] = make(chan struct{})
	}
	return d.gates[name]
}

func (d *driver) open(name string) {
	gate := d.gate(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// await waits as the instruction says, or until the context is cancelled.
func (d *driver) await(ctx context.Context, i *instruction) error {
	if i.Gate != "" {
		select {
		case <-d.gate(i.Gate):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if i.After > 0 {
		select {
		case <-time.After(duration(i.After)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

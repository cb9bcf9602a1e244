package driver

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Ports are claimed in blocks of BlockSize: block b starts at port b*BlockSize. The first block
// lacks port 0, which is ethertype.PortAll.
const (
	BlockSize = framing.PortBlock
	Blocks    = (1 << 16) / BlockSize
)

// Block returns the block that a port is in.
func Block(port uint16) int { return int(port) / BlockSize }

// BlockPorts returns the ports of block b.
func BlockPorts(b int) transport.PortRange {
	return transport.PortRange{Lo: uint16(max(1, b*BlockSize)), Hi: uint16(b*BlockSize + BlockSize - 1)}
}

// CheckPorts returns an error for an invalid range. Zero means any block.
func CheckPorts(r transport.PortRange) error {
	if r != (transport.PortRange{}) && (r.Lo == 0 || r.Hi < r.Lo) {
		return fmt.Errorf("transport: ports %d..%d: %w: want 1 <= Lo <= Hi <= 65535 (port 0 reaches every link)", r.Lo, r.Hi, unix.EINVAL)
	}
	return nil
}

// ClaimBlocks calls take for each block that the ports r touch. If r is zero, it calls take for
// blocks from 1 on, until one is not in use (EADDRINUSE). It returns the claimed ports. An error is
// that of take for block b, the first that failed; b is Blocks if no block is free.
func ClaimBlocks(r transport.PortRange, take func(b int) error) (claimed transport.PortRange, b int, err error) {
	if r == (transport.PortRange{}) {
		for b = 1; b < Blocks; b++ {
			if err = take(b); !errors.Is(err, unix.EADDRINUSE) {
				return BlockPorts(b), b, err
			}
		}
		return r, Blocks, unix.EADDRINUSE
	}
	for b = Block(r.Lo); b <= Block(r.Hi); b++ {
		if err = take(b); err != nil {
			return r, b, err
		}
	}
	return r, b, nil
}

package links

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// seals encrypts the links of a NIC.
type seals struct {
	cfg *Config
	err error // of the last link that could not be encrypted
}

// sealsOf returns the seals for cfg.
func sealsOf(cfg *Config) (*seals, error) {
	if cfg.Key == nil {
		return &seals{}, nil
	}
	if cfg.AnyUser {
		return nil, code.Error("open NIC", code.ErrArgument, "Config.AnyUser shares memory with users without the key, but a key is set: use only one of them")
	}
	if err := seal.Check(cfg.Key); err != nil {
		return nil, code.Within("open NIC", fmt.Errorf("%w: %w", code.ErrArgument, err))
	}
	return &seals{cfg: cfg}, nil
}

// wrap returns link encrypted, if there is a key and link is not memory. On an error it returns
// link unchanged, and result returns the error.
func (s *seals) wrap(link transport.Link) transport.Link {
	if s.cfg == nil || link.Info().SameHost {
		return link
	}
	opts := seal.Options{Keys: s.cfg.Key, Logger: s.cfg.Logger}
	if info := link.Info(); info.Virtual {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], s.cfg.Seed)
		copy(seed[8:], info.MAC[:])
		binary.BigEndian.PutUint64(seed[16:], uint64(link.Now())) // each incarnation has different numbers
		opts.Random = rand.NewChaCha8(seed)
	}
	sealed, err := seal.New(link, opts)
	if err != nil {
		s.err = code.Within("open NIC", err)
		return link
	}
	return sealed
}

// result returns the link and the error of a call that used wrap.
func (s *seals) result(link transport.Link, err error) (transport.Link, error) {
	if err == nil && s.err != nil {
		link.Close()
		return nil, s.err
	}
	return link, err
}

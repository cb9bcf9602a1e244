package vethtest

import (
	"errors"

	"github.com/safchain/ethtool"
)

// SetOffloads sets whether the interface of a side sends long frames whole or cuts them.
func (p *Pair) SetOffloads(side int, on bool) error {
	return p.In(side, func() error {
		return change(Name, map[string]bool{"tx-tcp6-segmentation": on, "tx-tcp-segmentation": on, "tx-generic-segmentation": on})
	})
}

// SetCard makes the path to a side of a bridged pair behave like a path to a network card: the
// bridge's port cuts long frames, and the interface joins the segments again (GRO) if joins is set.
func (p *Pair) SetCard(side int, joins bool) error {
	return errors.Join(
		p.InBridge(func() error {
			return change(ports[side], map[string]bool{"tx-tcp6-segmentation": false, "tx-tcp-segmentation": false})
		}),
		p.In(side, func() error { return change(Name, map[string]bool{"rx-gro": joins}) }),
	)
}

// change changes features of an interface in the calling thread's namespace.
func change(name string, features map[string]bool) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.Change(name, features)
}

package vethtest

import "github.com/safchain/ethtool"

// SetOffloads has the interface of a side cut long frames as they leave, or not.
func (p *Pair) SetOffloads(side int, on bool) error {
	return p.In(side, func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		return tool.Change(Name, map[string]bool{"tx-tcp6-segmentation": on, "tx-tcp-segmentation": on, "tx-generic-segmentation": on})
	})
}

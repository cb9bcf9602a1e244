package doctor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/google/nftables"
	"github.com/mdlayher/ethernet"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// families are those of nftables whose chains see frames of any EtherType.
var families = map[nftables.TableFamily]string{nftables.TableFamilyNetdev: "netdev", nftables.TableFamilyBridge: "bridge"}

// hooks are the names of the places that their base chains are at.
var hooks = map[nftables.TableFamily][]string{
	nftables.TableFamilyNetdev: {"ingress", "egress"},
	nftables.TableFamilyBridge: {"prerouting", "input", "forward", "output", "postrouting"},
}

// Drops returns what drops frames of an EtherType on an interface in this network namespace. To
// read the rules takes CAP_NET_ADMIN: without it the error wraps EPERM.
func Drops(name string, typ ethernet.EtherType) ([]Drop, error) {
	var chains []chain
	for family := range families {
		more, err := listChains(family)
		if err != nil {
			return nil, fmt.Errorf("doctor: rules of nftables: %w", err)
		}
		chains = append(chains, more...)
	}
	drops := findDrops(chains, sample{iface: name, typ: typ})
	for i := range drops {
		drops[i].Others = drops[i].Family == families[nftables.TableFamilyBridge] && !bridged(name)
	}
	return drops, nil
}

// bridged reports whether an interface is a bridge, or a port of one.
func bridged(name string) bool {
	driver, _ := iface.Driver(name)
	list, _ := iface.List()
	return driver == "bridge" || slices.ContainsFunc(list, func(i iface.Interface) bool { return i.Name == name && i.Bridge != "" })
}

// listChains returns the chains of a family, with their rules.
func listChains(family nftables.TableFamily) (all []chain, err error) {
	places, err := chainDevices(family)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil, nil // this kernel has no such family
	}
	if err != nil || len(places) == 0 {
		return nil, err
	}
	var conn nftables.Conn
	list, err := conn.ListChainsOfTableFamily(family)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, err
		}
		one := chain{family: families[family], table: c.Table.Name, name: c.Name, rules: rules,
			drops: c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop, devices: places[[2]string{c.Table.Name, c.Name}]}
		if c.Hooknum != nil && int(*c.Hooknum) < len(hooks[family]) {
			one.hook = hooks[family][*c.Hooknum]
			for _, device := range one.devices {
				one.hook += " of " + device
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// Attributes of nftables that package unix does not have.
const (
	hookDevices = 4 // NFTA_HOOK_DEVS
	typeMask    = 0x3fff
)

// chainDevices returns the interfaces that the chains of a family are hooked to, by table and
// chain, which package nftables does not read.
func chainDevices(family nftables.TableFamily) (map[[2]string][]string, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	request.AddRawData([]byte{byte(family), 0, 0, 0}) // struct nfgenmsg
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, err
	}
	all := map[[2]string][]string{}
	for _, m := range messages {
		var table, name string
		var devices []string
		for typ, value := range attributes(m[min(len(m), 4):]) {
			switch typ {
			case unix.NFTA_CHAIN_TABLE:
				table = text(value)
			case unix.NFTA_CHAIN_NAME:
				name = text(value)
			case unix.NFTA_CHAIN_HOOK:
				for typ, value := range attributes(value) {
					if typ == hookDevices {
						for _, device := range attributes(value) {
							devices = append(devices, text(device))
						}
					}
				}
			}
		}
		all[[2]string{table, name}] = devices
	}
	return all, nil
}

// attributes returns the attributes of a message one by one.
func attributes(b []byte) func(yield func(typ int, value []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(b) >= 4 {
			size := int(binary.NativeEndian.Uint16(b))
			if size < 4 || size > len(b) || !yield(int(binary.NativeEndian.Uint16(b[2:])&typeMask), b[4:size]) {
				return
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

// text returns what is before a NUL.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

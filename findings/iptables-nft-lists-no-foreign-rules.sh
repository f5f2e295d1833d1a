#!/usr/bin/env bash
# iptables 1.8.9 (nf_tables) with nftables 1.0.6: one rule that `nft` has put into a chain of iptables, and that is none of its own
# kinds (here `ct state`, which is `-m conntrack --ctstate` there), makes `iptables -S` and `-L` fail for that chain, and for the
# whole table, with the status 1; and `-C` and `-D` of iptables' own rules in that chain with the status 3. `-A` and `-I` work. With
# `iifname` before `ct state` in the foreign rule `-C` and `-D` work, too.
# A rule of kinds that iptables knows (`iifname`, a comment) is listed as if it were its own.
# What it means for a user: a program that lists a chain to find out whether it is there, as with DOCKER-USER, takes it for missing, and
# does not put its rules there; it could. iptables(8) and iptables-nft(8) do not say which commands fail.
# The message is also that of a chain that does not exist, so that it tells nothing.
# What helps: `nft list chain ip filter NAME`, whose status tells whether the chain is there.
# Needs apt-get (Debian 12), dpkg and the right to make namespaces. Fails if the output is another one than below.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get download -q iptables=1.8.9-2 nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 \
    libip6tc2=1.8.9-2 libnftnl11=1.2.4-2 libmnl0=1.0.4-3 libedit2=3.1-20221030-2 libjansson4=2.14-2 > download.log 2>&1 \
    || { cat download.log; exit 1; }
for package in *.deb; do dpkg -x "$package" root; done
libraries=$(find "$PWD/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
export LD_LIBRARY_PATH=$libraries XTABLES_LIBDIR=$(find "$PWD/root" -type d -name xtables | head -n 1)
export iptables=$PWD/root/usr/sbin/xtables-nft-multi nft=$PWD/root/usr/sbin/nft
cat > script <<'SCRIPT'
iptables() { "$iptables" iptables "$@" 2>&1; echo "status $?: iptables $*"; }
"$iptables" iptables --version
"$iptables" iptables -N C
"$iptables" iptables -A C -i a -j ACCEPT
"$nft" insert rule ip filter C iifname b counter accept comment '"known kinds"'
iptables -S C
"$nft" insert rule ip filter C ct state established accept
iptables -S C
iptables -L C -n
iptables -S NONE
iptables -S FORWARD
iptables -S
iptables -C C -i a -j ACCEPT
iptables -A C -i d -j DROP
iptables -I C -i e -j DROP
iptables -D C -i a -j ACCEPT
"$nft" flush chain ip filter C
"$nft" add rule ip filter C iifname b ct state established accept
iptables -A C -i a -j ACCEPT
iptables -C C -i a -j ACCEPT
iptables -S C
SCRIPT
unshare --net bash script > output
cat output
diff output - <<'EXPECTED'
iptables v1.8.9 (nf_tables)
-N C
-A C -i b -m comment --comment "known kinds" -j ACCEPT
-A C -i a -j ACCEPT
status 0: iptables -S C
iptables v1.8.9 (nf_tables): chain `C' in table `filter' is incompatible, use 'nft' tool.
status 1: iptables -S C
iptables v1.8.9 (nf_tables): chain `C' in table `filter' is incompatible, use 'nft' tool.
status 1: iptables -L C -n
iptables v1.8.9 (nf_tables): chain `NONE' in table `filter' is incompatible, use 'nft' tool.
status 1: iptables -S NONE
-P FORWARD ACCEPT
status 0: iptables -S FORWARD
iptables v1.8.9 (nf_tables): table `filter' is incompatible, use 'nft' tool.
status 1: iptables -S
Error: cmp sreg undef
iptables v1.8.9 (nf_tables): Parsing nftables rule failed
Perhaps iptables or your kernel needs to be upgraded.
status 3: iptables -C C -i a -j ACCEPT
status 0: iptables -A C -i d -j DROP
status 0: iptables -I C -i e -j DROP
Error: cmp sreg undef
iptables v1.8.9 (nf_tables): Parsing nftables rule failed
Perhaps iptables or your kernel needs to be upgraded.
status 3: iptables -D C -i a -j ACCEPT
status 0: iptables -A C -i a -j ACCEPT
status 0: iptables -C C -i a -j ACCEPT
iptables v1.8.9 (nf_tables): chain `C' in table `filter' is incompatible, use 'nft' tool.
status 1: iptables -S C
EXPECTED

// ftp-gateway.click: masquerading with active FTP. PORT commands of clients are rewritten, and the server's data connections
// find the clients.

define($ME 192.0.2.100)

nat :: TCPRewriter(pattern $ME 1024-65535# - - 0 1, drop);

FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> CheckTCPHeader -> ftp :: IPClassifier(dst tcp port ftp, tcp);
ftp[0] -> FTPPortMapper(nat, nat, 0) -> [0] nat;
ftp[1] -> [0] nat;

FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> CheckTCPHeader -> IPClassifier(dst host $ME and tcp) -> [1] nat;

nat[0] -> EtherEncap(0x0800, 2:0:0:0:0:10, 2:0:0:0:0:11) -> Queue(50) -> ToDevice(eth0);
nat[1] -> EtherEncap(0x0800, 2:0:0:0:0:12, 2:0:0:0:0:13) -> Queue(50) -> ToDevice(eth1);

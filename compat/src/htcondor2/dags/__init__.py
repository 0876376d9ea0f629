"""DAGs for DAGMan, made in Python and written as the files that it reads."""

from __future__ import annotations

from htcondor2.dags import exceptions
from htcondor2.dags.dag import DAG, DotConfig, NodeStatusFile
from htcondor2.dags.edges import BaseEdge, Grouper, JoinFactory, JoinNode, ManyToMany, OneToOne, Slicer
from htcondor2.dags.formatter import DEFAULT_SEPARATOR, NodeNameFormatter, SimpleFormatter
from htcondor2.dags.node import BaseNode, DAGAbortCondition, FinalNode, NodeLayer, Nodes, Script, SubDAG
from htcondor2.dags.rescue import find_rescue_file, rescue
from htcondor2.dags.walk_order import WalkOrder
from htcondor2.dags.writer import CONFIG_FILE_NAME, DEFAULT_DAG_FILE_NAME, write_dag

__all__ = [
    "CONFIG_FILE_NAME",
    "DAG",
    "DEFAULT_DAG_FILE_NAME",
    "DEFAULT_SEPARATOR",
    "BaseEdge",
    "BaseNode",
    "DAGAbortCondition",
    "DotConfig",
    "FinalNode",
    "Grouper",
    "JoinFactory",
    "JoinNode",
    "ManyToMany",
    "NodeLayer",
    "NodeNameFormatter",
    "NodeStatusFile",
    "Nodes",
    "OneToOne",
    "Script",
    "SimpleFormatter",
    "Slicer",
    "SubDAG",
    "WalkOrder",
    "exceptions",
    "find_rescue_file",
    "rescue",
    "write_dag",
]
